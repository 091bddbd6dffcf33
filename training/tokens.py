"""Job tokens: what a trainer shows to report and to upload, for its own job only.

A token is made from the job's id and nonce under the server's key, so that submitting a job
again sends the same one. Only its hash is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets


def new_nonce() -> str:
    """128 random bits, as 32 hex digits."""
    return secrets.token_hex(16)


def new_job_id() -> str:
    return secrets.token_hex(8)


def make_job_token(job_id: str, nonce: str, *, key: str) -> str:
    """The job's bearer token: 256 bits, URL-safe base64 without padding."""
    digest = hmac.new(key.encode(), f"job-token:{job_id}:{nonce}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_token(token: str, token_hash: str) -> bool:
    """Whether this is the token of that hash, compared in constant time."""
    return hmac.compare_digest(hash_token(token), token_hash)
