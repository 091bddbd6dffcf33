"""Fine-tunes one model from a signed job spec, and answers with it afterwards.

A package of its own: it imports nothing of the control plane. Heavy libraries are imported
only once a job is accepted, inside the functions that run it.
"""

from __future__ import annotations

__version__ = "0.1.0"
CONTRACT_VERSION = 1
