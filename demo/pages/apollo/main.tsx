import { ApolloProvider } from "@apollo/client/react";
import { createRoot } from "react-dom/client";
import { Articles } from "./articles.tsx";
import { client } from "./client.ts";

createRoot(document.getElementById("root")!).render(
  <ApolloProvider client={client}>
    <Articles />
  </ApolloProvider>,
);
