"""``python -m hopsmith``."""

from hopsmith.cli import main

main()
