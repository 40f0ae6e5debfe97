import { extendSchema, gql, lambda } from "content-service/postgraphile";

const WordCountPlugin = extendSchema(
  () => ({
    typeDefs: gql`
      extend type Note {
        """The number of words in the text."""
        wordCount: Int!
        """How long the text is read at so many words in a minute."""
        minutes(pace: Pace!): Float!
      }
      scalar Pace
    `,
    objects: {
      Note: {
        plans: {
          wordCount: ($note: any) => lambda($note.get("text"), (text) => wordsOf(text)),
          minutes: ($note: any, { $pace }: any) =>
            lambda([$note.get("text"), $pace] as const, ([text, pace]: any) => wordsOf(text) / pace),
        },
      },
    },
    scalars: { Pace: { parseValue: paceOf } },
  }),
  "WordCountPlugin",
);

const wordsOf = (text: unknown) => String(text).split(/\s+/).length;

function paceOf(value: unknown): number {
  if (typeof value !== "number" || value <= 0) throw new Error("a pace is a positive number");
  return value;
}

export const plugins = [WordCountPlugin];
