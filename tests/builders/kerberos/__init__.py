"""Metastores that demand Kerberos: daemons that log in, delegation tokens, and connections that break."""
