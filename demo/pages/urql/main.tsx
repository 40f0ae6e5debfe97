import { createRoot } from "react-dom/client";
import { Provider } from "urql";
import { Articles } from "./articles.tsx";
import { client } from "./client.ts";

createRoot(document.getElementById("root")!).render(
  <Provider value={client}>
    <Articles />
  </Provider>,
);
