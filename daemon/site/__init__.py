"""The site for operators: pages rendered on the server, their styles and their scripts."""
