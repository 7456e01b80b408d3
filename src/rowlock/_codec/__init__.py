"""Arguments and results as JSON text, and the refusal of what wouldn't come back."""

from rowlock._codec.codec import Codec, encode_json

__all__ = ["Codec", "encode_json"]
