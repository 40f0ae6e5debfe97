import { ChannelClient } from "./channel-socket.ts";
import { connect } from "./graphql-client.ts";
import type { TestService } from "./service.ts";

/** The status of a response, or the code with which a socket was closed, and the message. */
export type Refusal = readonly [status: number | string, message: string];

/** How each interface of the demo refuses an access token. */
export async function refusalsOf(service: TestService, token: string): Promise<Readonly<Record<string, Refusal>>> {
  const bearer = { authorization: `Bearer ${token}` };
  const apikey = service.service.tokens.issueKey("anon");
  const stream = { accept: "text/event-stream" };
  const ask = async (path: string, headers: Readonly<Record<string, string>>): Promise<Refusal> => {
    const response = await fetch(service.url + path, { headers: { ...bearer, ...headers } });
    const body = (await response.json()) as any;
    return [response.status, body.errors?.[0].message ?? body.error?.message ?? body.message];
  };
  const asQuery = (text: string) => `/graphql?query=${encodeURIComponent(text)}`;
  return {
    resource: await ask("/articles", {}),
    table: await ask("/rest/v1/articles", { apikey }),
    "stream of a table": await ask("/rest/v1/articles", { apikey, ...stream }),
    "sign-in": await ask("/auth/keys", {}),
    GraphQL: await ask(asQuery("{ me { id } }"), {}),
    "GraphQL stream": await ask(asQuery("subscription { onArticleCreated { id } }"), stream),
    "GraphQL socket": await connect(service, { params: { Authorization: bearer.authorization } })
      .run("{ me { id } }")
      .then(
        (result): Refusal => ["open", JSON.stringify(result)],
        ({ code, reason }): Refusal => [code, reason],
      ),
    channel: await joinWith(service, token),
  };
}

async function joinWith(service: TestService, token: string): Promise<Refusal> {
  const client = await new ChannelClient(service, "127.0.0.1").open();
  const { status, response } = await client.ask("room", "phx_join", { config: {}, access_token: token });
  return [status, response.reason];
}
