"""The metastore's protocol on the wire: messages, frames, SASL, TLS, and the authentication of clients."""
