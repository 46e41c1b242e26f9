"""Logins at metastores that require SASL: Kerberos, and passwords."""
