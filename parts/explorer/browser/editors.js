import {
  autocompletion,
  bracketMatching,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  defaultKeymap,
  EditorState,
  EditorView,
  foldGutter,
  foldKeymap,
  graphql,
  HighlightStyle,
  history,
  historyKeymap,
  json,
  jsonParseLinter,
  keymap,
  lineNumbers,
  linter,
  lintKeymap,
  Prec,
  placeholder,
  syntaxHighlighting,
  tags,
  updateSchema,
} from "./library.js";

/** The colours of the service, which follow light and dark. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.definitionKeyword, tags.typeName, tags.bool, tags.null], color: "var(--code-word)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.propertyName, tags.attributeName, tags.variableName], color: "var(--link)" },
  { tag: [tags.comment, tags.punctuation], color: "var(--muted)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--page)", fontSize: "0.875rem" },
  "&:focus-within, &.cm-focused": { outline: "2px solid var(--link)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "ui-monospace, monospace", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--page)", border: "0" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--raised)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-link)", backgroundColor: "var(--link)" },
  ".cm-completionDetail": { color: "inherit", marginLeft: "1em", fontStyle: "normal" },
  ".cm-diagnostic": { maxWidth: "32rem" },
});

const nonce = /** @type {HTMLScriptElement | null} */ (document.querySelector("script[nonce]"))?.nonce ?? "";

/** @param {string} label @param {import("@codemirror/state").Extension[]} extensions */
const common = (label, extensions) => [
  EditorView.cspNonce.of(nonce),
  EditorView.contentAttributes.of({ "aria-label": label, "aria-multiline": "true", tabindex: "0" }),
  THEME,
  syntaxHighlighting(COLOURS),
  EditorView.lineWrapping,
  ...extensions,
];

// Tab leaves the editor, as everywhere on the page.
const EDITING = [
  history(),
  bracketMatching(),
  closeBrackets(),
  keymap.of([
    ...closeBracketsKeymap,
    ...completionKeymap,
    ...lintKeymap,
    ...foldKeymap,
    ...historyKeymap,
    ...defaultKeymap,
  ]),
];

/**
 * @param {HTMLElement} parent
 * @param {string} label
 * @param {import("@codemirror/state").Extension[]} extensions
 */
function createEditor(parent, label, extensions) {
  const view = new EditorView({ parent, extensions: common(label, extensions) });
  return {
    view,
    /** The text. */
    get text() {
      return view.state.doc.toString();
    },
    /** @param {string} text */
    set(text) {
      if (text !== this.text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
  };
}

/** @param {() => void} run */
const runKey = (run) => Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => run() ?? true }]));

/** @param {() => void} onChange */
const listen = (onChange) =>
  EditorView.updateListener.of(({ docChanged }) => {
    if (docChanged) onChange();
  });

/** `onLookUp` gets the type of what the user clicks with Ctrl. @param {HTMLElement} parent @param {{ run(): void, onChange(): void, onLookUp(type: string): void }} options */
export function createQueryEditor(parent, { run, onChange, onLookUp }) {
  const editor = createEditor(parent, "Operation", [
    runKey(run),
    lineNumbers(),
    foldGutter(),
    autocompletion(),
    graphql(undefined, { onShowInDocs: (_field, type, parent) => onLookUp(parent ?? type ?? "") }),
    ...EDITING,
    listen(onChange),
  ]);
  return Object.assign(editor, {
    /** @param {import("graphql").GraphQLSchema} schema */
    use: (schema) => updateSchema(editor.view, schema),
  });
}

/** @param {HTMLElement} parent @param {string} label @param {{ hint: string, run(): void, onChange(): void }} options */
export function createJsonEditor(parent, label, { hint, run, onChange }) {
  const lint = jsonParseLinter();
  const check = linter((view) => (view.state.doc.toString().trim() === "" ? [] : lint(view)));
  return createEditor(parent, label, [runKey(run), placeholder(hint), json(), check, ...EDITING, listen(onChange)]);
}

/** @param {HTMLElement} parent */
export const createViewer = (parent) =>
  createEditor(parent, "Response", [
    EditorState.readOnly.of(true),
    foldGutter(),
    json(),
    bracketMatching(),
    keymap.of([...foldKeymap, ...defaultKeymap]),
  ]);
