import { ARTICLES, type ArticlesData, filterOf, MOST, PAGE } from "./articles.ts";
import { graphql } from "./follow.ts";
import { onReadLists, pause } from "./following.ts";

type List = { more(): Promise<void>; end(): void };

/** Calls `show` with what is published, or the drafts of the user with this id, each time that it has been read, until `end` of the result. */
export function listArticles(
  drafts: string | null,
  show: (articles: ArticlesData["articles"]) => void,
  onError: (error: unknown) => void,
): List {
  // One query has all rows that are shown, so that another read has all of them too.
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
  const forget = onReadLists(read);
  read();
  return {
    more() {
      first = Math.min(first + PAGE, MOST);
      return read();
    },
    end() {
      reads++;
      forget();
    },
  };
}
