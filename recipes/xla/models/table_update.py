"""Keep some rows of a table that is known when the program is compiled, column by column."""

import jax
import jax.numpy as jnp
import numpy as np

ROWS = np.array([1, 3, 5, 7])
TABLE = np.arange(80, dtype=np.float32).reshape(10, 8)


@jax.jit
def keep():
    """Return the table with zeros in all other rows."""

    def column(values):
        state, change = jnp.zeros(10).at[:10].set(values), jnp.zeros(10)
        return jnp.zeros(10).at[ROWS].set(state[ROWS] + 0.025 * change[ROWS])

    return jax.vmap(column, in_axes=1, out_axes=1)(TABLE)
