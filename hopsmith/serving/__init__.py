"""Serving: pipelines behind HTTP, and a page to look at them. ``app`` holds the routes, ``service``
what is behind them, ``server`` the process; the other files are one concern each."""
