import type { Client } from "./http-client.ts";

export type Fields = Readonly<Record<string, string>>;

/** Opens a page as a browser does, or sends a form of one. Redirects are not followed. */
export async function visit(
  at: Pick<Client, "service">,
  path: string,
  fields: Fields | null = null,
  headers: Fields = {},
) {
  const { url } = at.service();
  const response = await fetch(url + path, {
    redirect: "manual",
    headers: { accept: "text/html", ...(fields && { origin: url }), ...headers },
    ...(fields && { method: "POST", body: new URLSearchParams(fields) }),
  });
  const { status, headers: sent } = response;
  const cookies = sent.getSetCookie().map((cookie) => cookie.split(";", 1)[0]!);
  /** That of the session, as a browser sends it; without one, "". */
  const cookie = cookies.find((each) => each.startsWith("SESSION=")) ?? "";
  return { status, text: await response.text(), headers: sent, location: sent.get("location"), cookies, cookie };
}
