"""The metastore's protocol on the wire: messages, frames, SASL, TLS, and who the client is."""
