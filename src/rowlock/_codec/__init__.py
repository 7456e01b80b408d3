"""Arguments and results as JSON text, and the refusal of what wouldn't come back."""

from rowlock._codec.codec import MAX_PAYLOAD, Codec, encode_json, storable

__all__ = ["MAX_PAYLOAD", "Codec", "encode_json", "storable"]
