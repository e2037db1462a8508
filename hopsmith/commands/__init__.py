"""Commands, by what they are about."""
