// What the page /graphiql uses of packages. Browsers load the bundle of it, parts/explorer/browser/library.js.gz: after a change, or with
// other versions of the packages, run `npx node build/browser-library/build.ts`.
export { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { json, jsonParseLinter } from "@codemirror/lang-json";
export { bracketMatching, foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { linter, lintKeymap } from "@codemirror/lint";
export { EditorState, Prec } from "@codemirror/state";
export { EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
export { tags } from "@lezer/highlight";
export { graphql, updateSchema } from "cm6-graphql";
export {
  buildClientSchema,
  getIntrospectionQuery,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isLeafType,
  isObjectType,
  isRequiredArgument,
  isRequiredInputField,
  isUnionType,
  Kind,
  parse,
  parseType,
  parseValue,
  print,
} from "graphql";
export { createClient } from "graphql-ws";
