import { SaxesParser } from "saxes";

/** An element of a document, with names without prefixes. */
export type XmlElement = {
  readonly name: string;
  readonly namespace: string;
  /** Without those of other namespaces. */
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  /** The text directly in it. */
  readonly text: string;
};

export type XmlLimits = {
  /** Characters. */
  readonly size: number;
  readonly depth: number;
  readonly elements: number;
  /** Per element, declarations of namespaces included. */
  readonly attributes: number;
};

/** A document that is malformed, or has what no message of SAML has. */
export class XmlError extends Error {}

type Mutable = { -readonly [Key in keyof XmlElement]: XmlElement[Key] } & {
  attributes: Map<string, string>;
  children: Mutable[];
};

/**
 * Parses a document in linear time. Other parsers take seconds for some documents of this size, so a message must pass this
 * one first. Document types, entities, comments, processing instructions and CDATA are rejected: they are what attacks on
 * signatures hide behind, and parsers disagree on them. Throws XmlError.
 */
export function parseXml(text: string, limits: XmlLimits): XmlElement {
  if (text.length > limits.size) throw new XmlError(`has more than ${limits.size} characters`);
  const parser = new SaxesParser({ xmlns: true, position: false, defaultXMLVersion: "1.0", forceXMLVersion: true });
  const refuse = (what: string) => () => {
    throw new XmlError(`has ${what}`);
  };
  parser.on("error", ({ message }) => {
    throw new XmlError(message);
  });
  parser.on("doctype", refuse("a document type"));
  parser.on("processinginstruction", refuse("a processing instruction"));
  parser.on("comment", refuse("a comment"));
  parser.on("cdata", refuse("a CDATA section"));
  const open: Mutable[] = [];
  let root: XmlElement | null = null;
  let elements = 0;
  let attributesOfTag = 0;
  parser.on("opentagstart", () => {
    attributesOfTag = 0;
    if (++elements > limits.elements) throw new XmlError(`has more than ${limits.elements} elements`);
    if (open.length >= limits.depth) throw new XmlError(`has more than ${limits.depth} levels`);
  });
  parser.on("attribute", () => {
    if (++attributesOfTag > limits.attributes) {
      throw new XmlError(`has more than ${limits.attributes} attributes in an element`);
    }
  });
  parser.on("opentag", ({ local, uri, attributes }) => {
    const own = Object.values(attributes)
      .filter((attribute) => attribute.uri === "")
      .map(({ local: name, value }) => [name, value] as const);
    const element: Mutable = { name: local, namespace: uri, attributes: new Map(own), children: [], text: "" };
    open.at(-1)?.children.push(element);
    root ??= element;
    open.push(element);
  });
  parser.on("text", (part) => {
    const element = open.at(-1);
    if (element) element.text += part;
  });
  parser.on("closetag", () => void open.pop());
  parser.write(text).close();
  if (root === null) throw new XmlError("has no element");
  return root;
}

/** The element and all elements in it. */
export function* descendants(element: XmlElement): Generator<XmlElement> {
  yield element;
  for (const child of element.children) yield* descendants(child);
}

export const childrenOf = (element: XmlElement, namespace: string, name: string): readonly XmlElement[] =>
  element.children.filter((child) => child.name === name && child.namespace === namespace);

/** The only child of this name. Throws XmlError if there is none, or more than one. */
export function onlyChild(element: XmlElement, namespace: string, name: string): XmlElement {
  const [child, ...others] = childrenOf(element, namespace, name);
  if (child === undefined || others.length > 0) throw new XmlError(`must have one ${name} in ${element.name}`);
  return child;
}
