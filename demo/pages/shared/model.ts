import type { Comment } from "../live/comments.ts";

const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
export const timeText = ({ createdAt }: Comment): string => TIME.format(new Date(createdAt));

/** What to show of an error; without one, nothing. The message of urql itself begins with "[Network]" or "[GraphQL]". */
export function messageOf(error: any): string {
  const [first] = error?.graphQLErrors ?? error?.errors ?? [];
  return error ? first?.message || (error.networkError ?? error).message || "The service cannot be reached." : "";
}
