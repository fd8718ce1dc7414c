import type { Span } from '#internal/base/index.ts'

/** Mark that replaces a redacted value. */
export const hiddenMark = '[redacted]'
/** Mark for content that is encoded too deeply, or too expensive to inspect. */
export const unreadMark = '[redacted: not looked into]'
export const cardMark = '[redacted: card number]'
const keyMark = '[redacted: private key]'
const mailMark = '[redacted: e-mail]'
const tokenMark = '[redacted: token]'

/** Replaces the span that `spanOf` returns for each match, and continues after it. Linear time if the work of `spanOf` is limited. */
export function hideSpans(
  text: string,
  pattern: RegExp,
  spanOf: (match: RegExpExecArray, matchEnd: number) => Span | undefined,
): string {
  let shown = ''
  let copiedTo = 0
  pattern.lastIndex = 0
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    const span = spanOf(match, pattern.lastIndex)
    if (span === undefined || span.start < copiedTo) continue
    shown += `${text.slice(copiedTo, span.start)}${hiddenMark}`
    copiedTo = span.end
    // An empty value can end before the end of the match, but the search must not go back.
    pattern.lastIndex = Math.max(pattern.lastIndex, copiedTo)
  }
  return shown + text.slice(copiedTo)
}

/** Returns the end of the sticky pattern's match at an index, or the index itself without a match. */
export function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return at + (pattern.exec(text)?.[0].length ?? 0)
}

const privateKey =
  /-----BEGIN ([A-Z0-9 ]{0,32})PRIVATE KEY( BLOCK)?-----[^]*?(?:-----END \1PRIVATE KEY\2-----|$)/g
const puttyKey = /PuTTY-User-Key-File-[^]*/g
const dotted = /[\w.-]+/g
/** `eyJ` is base64url of `{"`, with which the header of a JSON Web Token begins. */
const webToken = /(?<![A-Za-z])eyJ[\w-]{8}/

/** Secret formats with vendor prefixes (documentation of the vendors, 2026-11). */
const vendorTokens = [
  /(?:[sr]k_(?:live|test)_|shp(?:at|ss|ca|pa|ua|tka)_|gh[pousr]_|github_pat_|dckr_pat_|do[opr]_v1_)[\w]{8,}/,
  /(?:lk_|glpat-|gl(?:ptt|dt|rt|soat)-|xox[abeoprs]-|xapp-|sq0(?:atp|csp)-|tskey-|sk-(?:ant|proj|or)-)[\w-]{8,}/,
  /whsec_[A-Za-z0-9+/_-]{8,}={0,2}/,
  /access_token\$(?:production|sandbox)\$\w+\$\w{8,}/,
  /(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{16,}|key-[\da-f]{32}|sk-[A-Za-z0-9]{20,}|AIza[\w-]{35}|ATATT[\w=-]{16,})/,
  /(?:ya29\.[\w.-]{16,}|hv[sb]\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9]))/,
  /(?:AGE-SECRET-KEY-1[A-Z0-9]{16,}|[a-z]{2,8}_[A-Za-z0-9]{4,64}_secret_[A-Za-z0-9]{8,})/,
]
const vendorToken = new RegExp(`(?<![A-Za-z])(?:${vendorTokens.map(({ source }) => source).join('|')})`, 'g')
const hookUrl =
  /(hooks\.slack\.com\/(?:services|workflows|triggers)\/|discord(?:app)?\.com\/api\/webhooks\/)[\w/-]{8,}/g

/** Hides private keys, tokens and URLs of webhooks that contain a secret. Runs in linear time. */
export function hideTokens(text: string): string {
  let shown = text
  if (shown.includes('PRIVATE KEY')) shown = shown.replace(privateKey, keyMark)
  if (shown.includes('PuTTY-User-Key')) shown = shown.replace(puttyKey, keyMark)
  if (shown.includes('eyJ')) shown = shown.replace(dotted, hideWebToken)
  shown = shown.replace(vendorToken, tokenMark)
  return shown.includes('/') ? shown.replace(hookUrl, `$1${hiddenMark}`) : shown
}

/** Hides the rest of `run` from the start of a JSON Web Token on, which is recognized by the two dots after its start. */
function hideWebToken(run: string): string {
  const at = webToken.exec(run)?.index
  if (at === undefined) return run
  const dot = run.indexOf('.', at)
  return dot < 0 || !run.includes('.', dot + 1) ? run : `${run.slice(0, at)}${tokenMark}`
}

/** HTTP authentication schemes (IANA registry, 2026-11, and others in use). */
const scheme =
  /(?<![A-Za-z])(Bearer|Basic|Token|ApiKey|Negotiate|NTLM|DPoP|GNAP|GoogleLogin|Hawk|Digest|AWS4-HMAC-SHA256)(?:[ \t+]|%20){1,8}/gi
const oneCredential = /[^\s"'<>,;&[\]]{8,}/y
/** Parameters of an HTTP authentication scheme that has several parameters in place of one credential. */
const parameters = /(?:[\w-]{1,32}=[^\r\n]*)/y
const schemesOfMany = /^(?:digest|hawk|aws4-hmac-sha256|googlelogin)$/i

/** Credentials in a URL. Real passwords contain unencoded slashes and @; a port contains neither. */
const urlPassword = /(:\/\/[^\s@/:?#"'<>]*:)(?!\d{1,5}(?:[/?#\s"'<>,;)]|$))[^\s"'<>]{0,512}@/g
const urlToken = /(:\/\/)[^\s@/:?#"'<>]{16,}@/g

const email = /(?<![\p{L}\p{N}._+'-])[\p{L}\p{N}._+'-]+@(?:[\p{L}\p{N}-]+\.)+[\p{L}]{2,}/gu

export function hidePersonal(text: string): string {
  let shown = hideCredentials(text)
  if (shown.includes('://'))
    shown = shown.replace(urlPassword, `$1${hiddenMark}@`).replace(urlToken, `$1${hiddenMark}@`)
  if (shown.includes('@')) shown = shown.replace(email, mailMark)
  return hideCards(shown)
}

function hideCredentials(text: string): string {
  return hideSpans(text, scheme, ([, name = ''], start) => {
    const hasParameters = schemesOfMany.test(name)
    const end = endOf(hasParameters ? parameters : oneCredential, text, start)
    const isFound = end > start && (hasParameters || isCredential(name, text.slice(start, end)))
    return isFound ? { start, end } : undefined
  })
}

/** Distinguishes credentials from prose such as "basic subscription" or "a token expired". */
function isCredential(name: string, text: string): boolean {
  if (text.startsWith(hiddenMark.slice(0, -1))) return false
  if (name.toLowerCase() === 'basic') return Buffer.from(text, 'base64').includes(58)
  if (name.toLowerCase() === 'bearer' && text.length >= 16) return true
  return text.length >= 24 || /\d/.test(text) || (/[a-z]/.test(text) && /[A-Z]/.test(text.slice(1)))
}

/** Digits in groups, as printed on cards. */
const grouped = /(?<!\d)\d{4,12}(?:[ .+\u00a0\u2000-\u200a\u202f\u2010-\u2015/-]{1,3}\d+)+/g
/** Digits after a dot are a fraction and do not match. */
const run = /(?<!\d|\d\.)\d{13,19}(?!\d)/g
const separators = /[^\d]+/g
/** UUID or hash: 32 or more hexadecimal digits, including letters. Its digits are not treated as a card number. */
const opaque =
  /((?<![\da-z])(?:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?=\d*[a-f])[\da-f]{32,128})(?![\da-z]))/i

/**
 * Visa, Mastercard, American Express, Diners Club, Discover, JCB, Maestro, UnionPay, RuPay, Mir, Troy, Verve, Elo (published ranges,
 * 2026-11).
 */
const networks: readonly (readonly [prefix: RegExp, lengths: readonly number[]])[] = [
  [/^4/, [13, 16, 19]],
  [/^(?:5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720))/, [16]],
  [/^3[47]/, [15]],
  [/^3(?:0[0-5]|095|6|8|9)/, [14, 16, 19]],
  [/^(?:6011|64[4-9]|65)/, [16, 17, 18, 19]],
  [/^35(?:2[89]|[3-8])/, [16, 17, 18, 19]],
  [/^(?:5018|5020|5038|5893|6304|6759|676[1-3])/, [13, 14, 15, 16, 17, 18, 19]],
  [/^(?:62|81)/, [16, 17, 18, 19]],
  [/^(?:60|82|508|353|356)/, [16]],
  [/^220[0-4]/, [16, 17, 18, 19]],
  [/^(?:9792|506(?:099|1)|636368|636297)/, [16, 18, 19]],
]

/** Checks network prefix, length and check digit. */
export function isCardNumber(digits: string): boolean {
  const { length } = digits
  if (length < 13 || length > 19 || !/^\d+$/.test(digits)) return false
  return (
    networks.some(([prefix, lengths]) => lengths.includes(length) && prefix.test(digits)) &&
    hasCheckDigit(digits)
  )
}

function hideCards(text: string): string {
  if (!hasDigits(text, 13)) return text
  // The pattern has a capturing group, so every second piece of the split is a match.
  const pieces = text.split(opaque)
  return pieces.map((piece, index) => (index % 2 === 1 ? piece : hideInPiece(piece))).join('')
}

function hasDigits(text: string, min: number): boolean {
  let digits = 0
  for (let at = 0; at < text.length && digits < min; at += 1) {
    const code = text.charCodeAt(at)
    if (code >= 48 && code <= 57) digits += 1
  }
  return digits === min
}

function hideInPiece(text: string): string {
  const ungrouped = text.replace(run, (digits, at: number) =>
    isCardNumber(digits) && !isInsideId(text, at, digits.length) ? cardMark : digits,
  )
  return ungrouped.replace(grouped, hideGroups)
}

/** A short sequence of digits between letters is more likely part of an id than of a card number. */
function isInsideId(text: string, at: number, length: number): boolean {
  return length < 15 && isLetter(text[at - 1]) && isLetter(text[at + length])
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /\p{L}/u.test(character)
}

/** Hides card numbers in groups of digits. A card number can start at any group. */
function hideGroups(match: string): string {
  const groups = match.split(separators)
  const between = match.match(separators) ?? []
  let shown = ''
  for (let index = 0; index < groups.length; index += 1) {
    const last = lastGroupOfCard(groups, between, index)
    shown += last === undefined ? groups[index] : cardMark
    index = last ?? index
    shown += between[index] ?? ''
  }
  return shown
}

/** Finds the last group of the longest card number from `first` on. Two groups with a dot between them are a decimal number. */
function lastGroupOfCard(
  groups: readonly string[],
  between: readonly string[],
  first: number,
): number | undefined {
  const opening = groups[first]?.length ?? 0
  if (opening < 4 || opening > 12) return undefined
  let digits = ''
  let found: number | undefined
  for (let index = first; index < groups.length; index += 1) {
    digits += groups[index]
    if (digits.length > 19) break
    const isDecimal = index === first + 1 && between[first] === '.'
    if (index > first && !isDecimal && isCardNumber(digits)) found = index
    // Only the last group of a card number is shorter than four digits.
    if ((groups[index]?.length ?? 0) < 4) break
  }
  return found
}

/** Checks the Luhn digit (ISO/IEC 7812-1 annex B). */
function hasCheckDigit(digits: string): boolean {
  let sum = 0
  for (let index = 0; index < digits.length; index += 1) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - 48
    const doubled = index % 2 === 1 ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}
