import type { SupabaseClient } from "@supabase/supabase-js";
import { checkSession } from "./check-session.ts";

export type LiveComment = {
  readonly id: number;
  readonly content: string;
  readonly author: { readonly id: number; readonly name: string };
};
type SystemMessage = { readonly position?: string; readonly resumed?: boolean; readonly gap?: boolean };
export const COLUMNS = "id, content, author:users(id, name)";
/** Comments of a page, and changes of one read. DB_MAX_ROWS must be larger. */
const [PAGE, CHANGES] = [20, 100];
const pause = () => new Promise((resolve) => setTimeout(resolve, 2000 * (0.5 + Math.random())));

/**
 * Calls `show` with the newest comments of the article, now and after each change, and `fail` with each error, and with undefined when
 * it has passed. In the result, `earlier` also shows those before the first, `add` shows one that was inserted before its change
 * arrives, and `end` ends it: after that, neither `show` nor `fail` is called.
 */
export function followComments(
  client: SupabaseClient,
  articleId: number,
  show: (comments: readonly LiveComment[], hasEarlier: boolean) => void,
  fail: (error: unknown) => void,
): { earlier(): void; add(comment: LiveComment): void; end(): void } {
  let comments: readonly LiveComment[] = [];
  /** `comments` are all those from this id on: 0 if there are none before. */
  let first = 0;
  /** What is to be read: the newest page, the page before the first comment, or changed comments by their ids. */
  const pending = new Set<"newest" | "earlier" | number>(["newest"]);
  let isReading = false;
  let hasEnded = false;
  // The library sends this object with each join, so it sends the newest position. Its types do not know the members.
  const options: { positions: true; since?: string } = { positions: true };
  const config: object = { postgres_changes_options: options };

  function refuse(error: unknown): void {
    if (hasEnded) return;
    fail(error);
    checkSession(client, error).catch(fail);
  }
  const select = () => {
    const query = client.from("comments").select(COLUMNS).eq("article_id", articleId);
    // A replica must not answer with less than the channel has sent.
    return options.since === undefined ? query : query.setHeader("Change-Position", options.since);
  };
  async function rowsOf(query: ReturnType<typeof select>): Promise<LiveComment[]> {
    const bounded = query.abortSignal(AbortSignal.timeout(10_000));
    const { data, error } = await bounded.overrideTypes<LiveComment[], { merge: false }>();
    if (error) throw error;
    return data;
  }
  /** The last comments, or the last before `first`. */
  async function readPage(isNewest: boolean): Promise<LiveComment[]> {
    const query = isNewest ? select() : select().lt("id", first);
    // One more tells whether there are earlier ones.
    const rows = await rowsOf(query.order("id", { ascending: false }).limit(PAGE + 1));
    const page = rows.slice(0, PAGE).reverse();
    first = rows.length > PAGE ? page[0]!.id : 0;
    return page;
  }
  function replace(ids: readonly number[], rows: readonly LiveComment[]): void {
    const others = comments.filter(({ id }) => !ids.includes(id));
    comments = [...others, ...rows].sort((a, b) => a.id - b.id);
  }
  async function read(asked: ReadonlySet<"newest" | "earlier" | number>): Promise<void> {
    const ids = [...asked].filter((one) => typeof one === "number");
    if (asked.has("newest") || ids.length > CHANGES) {
      comments = await readPage(true);
      return;
    }
    if (ids.length > 0) {
      // With their authors, which a change does not have. A deleted comment is not found.
      const rows = await rowsOf(select().in("id", ids).gte("id", first));
      replace(ids, rows);
    }
    if (asked.has("earlier")) comments = [...(await readPage(false)), ...comments];
  }
  /** One read after the other: changes that arrive during a read are applied after it, together. */
  async function work(): Promise<void> {
    if (isReading) return;
    isReading = true;
    while (pending.size > 0 && !hasEnded) {
      const asked = new Set(pending);
      pending.clear();
      try {
        await read(asked);
        if (!hasEnded) show(comments, first > 0);
      } catch (error) {
        for (const one of asked) pending.add(one);
        refuse(error);
        await pause();
      }
    }
    isReading = false;
    // Also if there was nothing to read: a lost connection is back.
    if (!hasEnded && channel.state === "joined") fail(undefined);
  }

  const filter = `article_id=eq.${articleId}`;
  const channel = client
    .channel(`comments of ${articleId}`, { config })
    .on<{ id: number }>("postgres_changes", { event: "*", schema: "public", table: "comments", filter }, (change) => {
      const { id } = { ...change.old, ...change.new } as { id: number };
      pending.add(id);
      // The position after the change follows. An older version of the library gets none.
      setTimeout(work, 1000);
    })
    .on("system", {}, ({ position, resumed, gap }: SystemMessage) => {
      if (position !== undefined) options.since = position;
      // A channel that begins, or changes that were missed.
      if (resumed === false || gap === true) pending.add("newest");
      work();
    })
    .subscribe((_status, error) => {
      // The library joins again by itself: without a position, so that the channel begins again.
      if (error?.message.startsWith("Gap")) delete options.since;
      else if (error) refuse(error);
    });
  return {
    earlier() {
      pending.add("earlier");
      work();
    },
    add(comment) {
      if (hasEnded) return;
      replace([comment.id], [comment]);
      show(comments, first > 0);
      // It may have changed since.
      pending.add(comment.id);
      work();
    },
    end() {
      hasEnded = true;
      client.removeChannel(channel);
    },
  };
}
