import { ApolloProvider } from "@apollo/client/react";
import { createRoot } from "react-dom/client";
import { client } from "../live/apollo.ts";
import { Articles } from "./articles.tsx";

createRoot(document.getElementById("root")!).render(
  <ApolloProvider client={client}>
    <Articles />
  </ApolloProvider>,
);
