import { CombinedGraphQLErrors, gql, type TypedDocumentNode } from "@apollo/client";
import { client, onUser, signIn, signOut } from "./client.ts";

const find = (selector: string) => document.querySelector<HTMLElement>(selector)!;

const ME: TypedDocumentNode<{ readonly me: { readonly name: string } }> = gql`
  query Me { me { id name } }
`;
const COMMENTED: TypedDocumentNode<{ readonly onCommentAdded: { readonly content: string } }> = gql`
  subscription Commented { onCommentAdded(articleId: 1) { id content } }
`;
const COMMENT: TypedDocumentNode<unknown, { readonly content: string }> = gql`
  mutation Comment($content: String!) { createComment(articleId: 1, content: $content) { id } }
`;

async function showUser(): Promise<void> {
  const { data, error } = await client.query({ query: ME, errorPolicy: "all", fetchPolicy: "network-only" });
  if (error && !CombinedGraphQLErrors.is(error)) throw error;
  const name = data?.me?.name ?? "";
  // Another user must not see what the last one has read.
  if (name !== find("#signed-in strong").textContent) find("#comments").replaceChildren();
  find("#signed-in").hidden = !data?.me;
  find("#sign-in").hidden = Boolean(data?.me);
  find("#signed-in strong").textContent = name;
}

function showFault(error: unknown): void {
  find("#fault").textContent = (error as Error).message;
}

function handle(selector: string, send: (values: Record<string, string>) => Promise<unknown>): void {
  const form = find(selector) as HTMLFormElement;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    find("#fault").textContent = "";
    try {
      await send(Object.fromEntries(new FormData(form)) as Record<string, string>);
      form.reset();
    } catch (error) {
      showFault(error);
    }
  });
}

handle("#sign-in", signIn);
handle("#comment", ({ content = "" }) => client.mutate({ mutation: COMMENT, variables: { content } }));
find("#sign-out").addEventListener("click", () => signOut().catch(showFault));
onUser(() => showUser().catch(showFault));
/** Shows what is commented from now on. An error ends a subscription, for example while changes cannot be read. */
function follow(): void {
  client.subscribe({ query: COMMENTED }).subscribe(({ data, error }) => {
    if (data)
      find("#comments").append(
        Object.assign(document.createElement("li"), { textContent: data.onCommentAdded.content }),
      );
    if (error) setTimeout(follow, 2000);
  });
}
follow();
showUser().catch(showFault);
