// Holds an object of standard input against the schema of its kind.
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { PodMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
const object = JSON.parse(text);
new { ScaledObject, PodMonitor }[object.kind](object).validate();
