import type { SupabaseClient } from "@supabase/supabase-js";
import { checkSession } from "./check-session.ts";

export type LiveComment = {
  readonly id: number;
  readonly content: string;
  readonly author: { readonly id: number; readonly name: string };
};
type SystemMessage = { readonly position?: string; readonly resumed?: boolean; readonly gap?: boolean };
const COLUMNS = "id, content, author:users(id, name)";

/** Calls `show` with the comments of the article, now and after each change. The result ends it. */
export function followComments(
  client: SupabaseClient,
  articleId: number,
  show: (comments: readonly LiveComment[]) => void,
  fail: (error: unknown) => void,
): () => void {
  let comments: readonly LiveComment[] = [];
  let isCurrent = false;
  // The library sends this object with each join, so it sends the newest position. Its types do not know the members.
  const options: { positions: true; since?: string } = { positions: true };
  const config: object = { postgres_changes_options: options };

  const refuse = (error: unknown): void => {
    fail(error);
    checkSession(client, error).catch(fail);
  };
  // One step after the other: changes that arrive during a read are applied after it.
  let queue = Promise.resolve();
  const later = (step: () => Promise<void>): void => {
    queue = queue.then(step).catch(refuse);
  };
  const select = () => {
    const query = client.from("comments").select(COLUMNS).eq("article_id", articleId);
    // A replica must not answer with less than the channel has sent.
    return options.since === undefined ? query : query.setHeader("Change-Position", options.since);
  };
  async function load(): Promise<void> {
    isCurrent = false;
    const { data, error } = await select().order("id").overrideTypes<LiveComment[], { merge: false }>();
    if (error) throw error;
    comments = data;
    isCurrent = true;
    show(comments);
  }
  /** Reads the comment with its author, which a change does not have. A deleted comment is not found. */
  async function update(id: number): Promise<void> {
    if (!isCurrent) return load();
    isCurrent = false;
    const { data, error } = await select().eq("id", id).overrideTypes<LiveComment[], { merge: false }>();
    if (error) throw error;
    const others = comments.filter((comment) => comment.id !== id);
    comments = [...others, ...data].sort((a, b) => a.id - b.id);
    isCurrent = true;
    show(comments);
  }

  const filter = `article_id=eq.${articleId}`;
  const channel = client
    .channel(`comments of ${articleId}`, { config })
    .on<{ id: number }>("postgres_changes", { event: "*", schema: "public", table: "comments", filter }, (change) => {
      const { id } = { ...change.old, ...change.new } as { id: number };
      later(() => update(id));
    })
    .on("system", {}, ({ position, resumed, gap }: SystemMessage) => {
      if (position !== undefined) options.since = position;
      // A channel that begins, or changes that were missed. After a read that failed, each message tries again.
      const isStale = resumed === false || gap === true;
      later(async () => {
        if (isStale || !isCurrent) await load();
      });
    })
    .subscribe((_status, error) => {
      // The library joins again by itself: without a position, so that the channel begins again.
      if (error?.message.startsWith("Gap")) delete options.since;
      else if (error) refuse(error);
    });
  return () => void client.removeChannel(channel);
}
