"""The commands of replicas: bootstrap, release, pause, resume, prune and retire."""
