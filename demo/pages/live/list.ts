import { ARTICLES, type ArticlesData, filterOf, PAGE } from "./articles.ts";
import { graphql } from "./follow.ts";
import { pause } from "./following.ts";
import { socket } from "./socket.ts";

type List = { read(): Promise<void>; more(): Promise<void>; end(): void };

/** Calls `show` with what is published, or the drafts of the user with this id. In the result, `read` reads again, and `end` ends it. */
export function listArticles(
  drafts: string | null,
  show: (articles: ArticlesData["articles"]) => void,
  onError: (error: unknown) => void,
): List {
  // One query has all rows that are shown, so that `read` reads all of them again.
  let first = PAGE;
  /** Counts the reads, of which the last one is shown. */
  let reads = 0;
  async function read(): Promise<void> {
    const mine = ++reads;
    try {
      const { data } = await graphql<ArticlesData>(ARTICLES, { ...filterOf(drafts), first });
      if (mine === reads) show(data.articles);
    } catch (error) {
      if (mine !== reads) return;
      onError(error);
      await pause();
      if (mine === reads) return read();
    }
  }
  // What was written while the socket was closed.
  const forget = socket.on("connected", (_socket, _payload, wasRetry) => void (wasRetry && read()));
  read();
  return {
    read,
    more() {
      first += PAGE;
      return read();
    },
    end() {
      reads++;
      forget();
    },
  };
}
