// Holds an object of standard input against the schema of its kind.
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { PodMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const object = JSON.parse(text);
new { ScaledObject, PodMonitor, PrometheusRule }[object.kind](object).validate();
