"""Values of the chart in combinations that users choose, for every check of what it renders."""

from __future__ import annotations

from typing import Any, Final


Values = dict[str, Any]
SOURCE: Final[Values] = {
    "sources": {"lake": {"metastore": ["thrift://source:9083"], "topic": "tideline.lake"}},
    "kafka": {"bootstrap": "kafka:9092"},
}
ON_KUBERNETES: Final[Values] = {"spark": {"master": "k8s://https://kubernetes.default.svc"}}
FLAT: Final[Values] = {
    "flat": {
        "events": {
            "table": "web.events_flat",
            "raw_table": "web.events",
            "metastore": ["thrift://target:9083"],
            "location": "s3a://lake/web/events_flat",
            "source": {"kind": "kafka", "topic": "web.events", "bootstrap": "kafka:9092"},
            "event_time": {"key": "epoch"},
            **ON_KUBERNETES,
        }
    }
}
SIDECAR: Final = {"name": "agent", "image": "agent:1"}
SPREAD: Final = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "tideline"}},
}
PEER: Final = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
MATRIX: Final[dict[str, Values]] = {
    "defaults": {},
    "stopped": {"replicas": 0},
    "source": {"config": SOURCE},
    "executors": {"config": FLAT, "spark": {"executors": True}},
    "executors elsewhere": {
        "config": FLAT,
        "spark": {"executors": True, "namespace": "spark", "createNamespace": False},
        "networkPolicy": {"egress": [{"ports": [{"port": 9092, "protocol": "TCP"}]}]},
    },
    "executors without policies": {"spark": {"executors": True}, "networkPolicy": {"enabled": False}},
    "endpoints": {
        "config": {**SOURCE, "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}}, "serve": {"lake": {}}},
        "networkPolicy": {"clients": [PEER]},
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    },
    "several daemons": {
        "replicas": 3,
        "config": {**SOURCE, "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}}, "serve": {"lake": {}}},
        "networkPolicy": {"clients": [PEER]},
        "env": [{"name": "A", "value": "b"}],
        "serviceMonitor": {"enabled": True},
    },
    "ingress": {
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "host": "tideline.example.org",
            "annotations": {"a": "b"},
            "tls": [{"hosts": ["tideline.example.org"], "secretName": "tls"}],
        },
        "networkPolicy": {"from": [PEER]},
    },
    "ingress of the default class": {"ingress": {"enabled": True, "host": "t.example.org"}},
    "containers": {
        "initContainers": [
            {**SIDECAR, "name": "first"},
            {**SIDECAR, "name": "proxy", "restartPolicy": "Always"},
        ],
        "sidecars": [SIDECAR],
        "topologySpreadConstraints": [SPREAD],
        "env": [{"name": "TZ", "value": "UTC"}],
        "envFrom": [{"secretRef": {"name": "kafka"}}],
        "extraVolumes": [{"name": "keytab", "secret": {"secretName": "keytab"}}],
        "extraVolumeMounts": [{"name": "keytab", "mountPath": "/run/keytab"}],
    },
    "storage class": {"persistence": {"storageClass": "fast", "accessMode": "ReadWriteOnce"}},
    "no storage class": {"persistence": {"storageClass": "-", "whenDeleted": "Delete"}},
    "names of digits": {
        "nameOverride": "42",
        "commonLabels": {"team": "1"},
        "podLabels": {"colour": "0x1"},
        "podAnnotations": {"note": "true"},
        "nodeSelector": {"disk": "1"},
        "priorityClassName": "1000",
    },
    "full name of digits": {"fullnameOverride": "1e5"},
    "other account": {"serviceAccount": {"create": False, "name": "123"}, "spark": {"executors": True}},
    "operator": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "1"}},
        "prometheusRule": {"enabled": True},
        "networkPolicy": {"from": [PEER]},
    },
    "without policies": {
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
}
"""By name, each accepted by the chart and by Kubernetes."""
RELEASES: Final = ("demo", "123", "1e5", "tideline")
"""Names of releases; those of digits would be numbers in unquoted YAML."""
