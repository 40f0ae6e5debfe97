import { extendSchema, gql, lambda } from "content-service/postgraphile";

/** `{ notes { edges { node { wordCount } } } }` */
const WordCountPlugin = extendSchema(
  () => ({
    typeDefs: gql`
      extend type Note {
        """The number of words in the text."""
        wordCount: Int!
      }
    `,
    objects: {
      Note: {
        plans: {
          wordCount: ($note: any) => lambda($note.get("text"), (text) => String(text).split(/\s+/).length),
        },
      },
    },
  }),
  "WordCountPlugin",
);

export const plugins = [WordCountPlugin];
