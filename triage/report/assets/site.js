"use strict";
// Buttons that copy a text, and the search. All else is in the pages themselves.

for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copies).textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // where a browser gives no clipboard to files, a selection is copied
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });
}

const most = 200;

function triageSearch(rows) {
  const asked = new URLSearchParams(location.search).get("text") ?? "";
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  document.querySelector("input[type=search]").value = asked;
  if (!words.length) return;
  const found = rows.filter(([text]) => words.every((word) => text.toLowerCase().includes(word)));
  const more = found.length > most ? `, the first ${most} are shown` : "";
  document.getElementById("found").textContent = `${found.length} found${more}.`;
  for (const [text, url] of found.slice(0, most)) {
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.textContent = text;
    link.href = url;
    document.getElementById("results").append(item);
  }
}

if (document.getElementById("results")) {
  const script = document.createElement("script");
  script.src = "data/search.js";
  document.head.append(script);
}
