"""The entries of single tables in the state of a policy: quarantine, loads, and other facts about them."""
