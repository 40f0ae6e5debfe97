import { ASSERTION } from "./metadata.ts";
import { type Expected, LIMITS, requireEqual, verified } from "./response.ts";
import { childrenOf, onlyChild, parseXml, type XmlElement, XmlError } from "./xml.ts";

// The checks after node-saml has verified a signature: the assertion must be meant for this service and this sign-in, and be valid
// now. node-saml checks only part of this.

/** Milliseconds by which the clock of a provider may differ. */
export const CLOCK_SKEW = 60_000;

const BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
const TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient";

/** What a signed assertion says of the user. */
export type Assertion = {
  readonly id: string;
  /** Milliseconds since 1970, after which it is not accepted. */
  readonly expiresAt: number;
  /** The NameID; null for a transient one, which changes with each sign-in. */
  readonly subject: string | null;
  readonly nameId: {
    readonly value: string;
    readonly format: string | null;
    readonly nameQualifier: string | null;
    readonly spNameQualifier: string | null;
  };
  readonly sessionIndex: string | null;
  /** Values by the name of their attribute, and by its friendly name. */
  readonly attributes: Readonly<Record<string, readonly string[]>>;
};

/**
 * Checks an assertion whose signature was verified, in the bytes that were signed. Throws Problem.
 * Source: SAML 2.0 Profiles, 4.1.4.2 and 4.1.4.3.
 */
export function readAssertion(xml: string, expected: Expected): Assertion {
  return verified(() => {
    const root = parseXml(xml, LIMITS);
    if (root.name !== "Assertion" || root.namespace !== ASSERTION) throw new XmlError("is not an Assertion");
    requireEqual("Version", root.attributes.get("Version"), "2.0");
    requireEqual("Issuer", onlyChild(root, ASSERTION, "Issuer").text, expected.issuer);
    const subject = onlyChild(root, ASSERTION, "Subject");
    const confirmedUntil = confirmationEnd(subject, expected);
    checkConditions(onlyChild(root, ASSERTION, "Conditions"), expected);
    const statements = childrenOf(root, ASSERTION, "AuthnStatement");
    if (statements.length === 0) throw new XmlError("has no AuthnStatement");
    for (const { attributes } of statements) requireFuture("SessionNotOnOrAfter", attributes, expected.now, true);
    const nameId = readNameId(onlyChild(subject, ASSERTION, "NameID"), expected);
    return {
      id: requiredAttribute(root, "ID"),
      expiresAt: confirmedUntil + CLOCK_SKEW,
      subject: nameId.format === TRANSIENT ? null : nameId.value,
      nameId,
      sessionIndex: statements[0]!.attributes.get("SessionIndex") ?? null,
      attributes: readAttributes(root),
    };
  });
}

/** Checks the bearer confirmation, and returns its end. */
function confirmationEnd(subject: XmlElement, { consumerUrl, requestId, now }: Expected): number {
  const bearers = childrenOf(subject, ASSERTION, "SubjectConfirmation").filter(
    ({ attributes }) => attributes.get("Method") === BEARER,
  );
  if (bearers.length !== 1) throw new XmlError("must have one bearer SubjectConfirmation");
  const { attributes } = onlyChild(bearers[0]!, ASSERTION, "SubjectConfirmationData");
  requireEqual("Recipient", attributes.get("Recipient"), consumerUrl);
  requireEqual("InResponseTo", attributes.get("InResponseTo"), requestId);
  requirePast("NotBefore", attributes, now);
  return requireFuture("NotOnOrAfter", attributes, now, false)!;
}

function checkConditions(conditions: XmlElement, { entityId, now }: Expected): void {
  requirePast("NotBefore", conditions.attributes, now);
  requireFuture("NotOnOrAfter", conditions.attributes, now, true);
  const restrictions = childrenOf(conditions, ASSERTION, "AudienceRestriction");
  if (restrictions.length === 0) throw new XmlError("has no AudienceRestriction");
  for (const restriction of restrictions) {
    const audiences = childrenOf(restriction, ASSERTION, "Audience").map(({ text }) => text);
    if (!audiences.includes(entityId)) throw new XmlError("is for another audience");
  }
}

function readNameId(element: XmlElement, { issuer, entityId }: Expected): Assertion["nameId"] {
  if (element.children.length > 0) throw new XmlError("has an element in NameID");
  const attribute = (name: string) => element.attributes.get(name) ?? null;
  const [nameQualifier, spNameQualifier] = [attribute("NameQualifier"), attribute("SPNameQualifier")];
  // The same text with another qualifier is another subject.
  if (nameQualifier !== null) requireEqual("NameQualifier", nameQualifier, issuer);
  if (spNameQualifier !== null) requireEqual("SPNameQualifier", spNameQualifier, entityId);
  return { value: element.text, format: attribute("Format"), nameQualifier, spNameQualifier };
}

function readAttributes(root: XmlElement): Assertion["attributes"] {
  const values = new Map<string, readonly string[]>();
  const attributes = childrenOf(root, ASSERTION, "AttributeStatement").flatMap((statement) =>
    childrenOf(statement, ASSERTION, "Attribute"),
  );
  for (const attribute of attributes) {
    const texts = childrenOf(attribute, ASSERTION, "AttributeValue").map(({ text }) => text);
    const name = requiredAttribute(attribute, "Name");
    if (values.has(name)) throw new XmlError("has an attribute twice");
    values.set(name, texts);
  }
  for (const attribute of attributes) {
    const name = attribute.attributes.get("FriendlyName");
    const texts = values.get(requiredAttribute(attribute, "Name"))!;
    if (name && !values.has(name)) values.set(name, texts);
  }
  return Object.fromEntries(values);
}

function requiredAttribute({ name: element, attributes }: XmlElement, name: string): string {
  const value = attributes.get(name);
  if (!value) throw new XmlError(`has no ${name} in ${element}`);
  return value;
}

type Attributes = XmlElement["attributes"];

function requirePast(name: string, attributes: Attributes, now: number): void {
  const time = timeAt(name, attributes);
  if (time !== null && time > now + CLOCK_SKEW) throw new XmlError(`is not valid yet (${name})`);
}

/** Returns the time; null if it is absent. */
function requireFuture(name: string, attributes: Attributes, now: number, isOptional: boolean): number | null {
  const time = timeAt(name, attributes);
  if (time === null && !isOptional) throw new XmlError(`has no ${name}`);
  if (time !== null && time <= now - CLOCK_SKEW) throw new XmlError(`has expired (${name})`);
  return time;
}

/** A time of XML Schema in UTC, as SAML requires; null if it is absent. */
function timeAt(name: string, attributes: Attributes): number | null {
  const text = attributes.get(name);
  if (text === undefined) return null;
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) throw new XmlError(`has a malformed ${name}`);
  return time;
}
