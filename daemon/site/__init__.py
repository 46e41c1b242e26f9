"""The site for operators: pages that are rendered on the server, their styles and their scripts."""
