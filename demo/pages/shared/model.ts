import type { Comment } from "../live/comments.ts";

const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
export const timeText = ({ createdAt }: Comment): string => TIME.format(new Date(createdAt));

/** How many articles there are, and if the list ends before them, how many it shows. */
export function totalText(total: number, shown: number, hasMore: boolean): string {
  if (total === 0) return "Nothing here yet.";
  const all = total === 1 ? "1 article" : `${total} articles`;
  return hasMore || shown >= total ? all : `${all}, of which the newest ${shown} are shown`;
}

/** What to show of an error; without one, nothing. The message of urql itself begins with "[Network]" or "[GraphQL]". */
export function messageOf(error: any): string {
  const [first] = error?.graphQLErrors ?? error?.errors ?? [];
  return error ? first?.message || (error.networkError ?? error).message || "The service cannot be reached." : "";
}
