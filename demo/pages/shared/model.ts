import type { Comment } from "../live/comments.ts";

const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
export const timeText = ({ createdAt }: Comment): string => TIME.format(new Date(createdAt));

/** What to show of an error; without one, nothing. An error of urql and of the service has the text of the service in its first error. */
export function messageOf(error: any): string {
  const [first] = error?.graphQLErrors ?? error?.errors ?? [];
  return error ? first?.message || error.message || "The service cannot be reached." : "";
}
