"""The version of this program: a module of its own, so that whoever names it loads nothing else."""

__version__ = "0.1.0"
