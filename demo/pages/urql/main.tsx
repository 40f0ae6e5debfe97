import { createRoot } from "react-dom/client";
import { Provider } from "urql";
import { client } from "../live/urql.ts";
import { useUser } from "../shared/account.tsx";
import { Articles } from "./articles.tsx";

/** Each user has a client. */
function Root() {
  useUser();
  return (
    <Provider value={client}>
      <Articles />
    </Provider>
  );
}

createRoot(document.getElementById("root")!).render(<Root />);
