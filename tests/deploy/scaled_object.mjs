// Holds a ScaledObject of standard input against KEDA's schema.
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";

let text = "";
for await (const chunk of process.stdin) {
  text += chunk;
}
new ScaledObject(JSON.parse(text)).validate();
