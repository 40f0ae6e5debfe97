import { ApolloProvider } from "@apollo/client/react";
import { createRoot } from "react-dom/client";
import { Account } from "./account.jsx";
import { Articles } from "./articles.jsx";
import { client } from "./client.js";

createRoot(document.getElementById("root")).render(
  <ApolloProvider client={client}>
    <h1>Articles</h1>
    <Account />
    <Articles />
  </ApolloProvider>,
);
