"""Keep the issues of a GitHub repository in step with nights: read them, plan what to change, and change them."""
