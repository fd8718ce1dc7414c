/** Digits in groups, as cards show them. */
const grouped = /(?<!\d)\d{4,12}(?:[ .+\u00a0\u2000-\u200a\u202f\u2010-\u2015/-]{1,3}\d+)+/g
/** Without groups; behind a dot they are a number's fraction. */
const run = /(?<!\d|\d\.)\d{13,19}(?!\d)/g
const separators = /[^\d]+/g
/** A UUID, or a hash: 32 and more hexadecimal digits, letters among them. Rows of digits in one are no card's. */
const opaque =
  /((?<![\da-z])(?:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|(?=\d*[a-f])[\da-f]{32,128})(?![\da-z]))/i

/**
 * Beginnings that networks give out, with the lengths that go with them: Visa, Mastercard, American Express, Diners Club,
 * Discover, JCB, Maestro, UnionPay, RuPay, Mir, Troy, Verve, Elo (read in issuers' published ranges, 2026-11).
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

/** Whether digits may be a card's number: their length and beginning are some network's, and the check digit is right. */
export function isCardNumber(digits: string): boolean {
  const { length } = digits
  if (length < 13 || length > 19 || !/^\d+$/.test(digits)) return false
  return (
    networks.some(([prefix, lengths]) => lengths.includes(length) && prefix.test(digits)) &&
    hasCheckDigit(digits)
  )
}

/** Replaces numbers of cards, in groups or not, with `mark`. */
export function hideCards(text: string, mark: string): string {
  if (!hasDigits(text, 13)) return text
  // Split by what is captured: every second piece is one of those.
  const pieces = text.split(opaque)
  return pieces.map((piece, index) => (index % 2 === 1 ? piece : hideInPiece(piece, mark))).join('')
}

function hasDigits(text: string, min: number): boolean {
  let digits = 0
  for (let at = 0; at < text.length && digits < min; at += 1) {
    const code = text.charCodeAt(at)
    if (code >= 48 && code <= 57) digits += 1
  }
  return digits === min
}

function hideInPiece(text: string, mark: string): string {
  const ungrouped = text.replace(run, (digits, at: number) =>
    isCardNumber(digits) && !isInsideId(text, at, digits.length) ? mark : digits,
  )
  return ungrouped.replace(grouped, (match) => hideGroups(match, mark))
}

/** Between letters a short row of digits is more often a part of an id than a card. */
function isInsideId(text: string, at: number, length: number): boolean {
  return length < 15 && isLetter(text[at - 1]) && isLetter(text[at + length])
}

function isLetter(character: string | undefined): boolean {
  return character !== undefined && /\p{L}/u.test(character)
}

/** A card may stand beside other numbers: of the groups each may be a card's first. */
function hideGroups(match: string, mark: string): string {
  const groups = match.split(separators)
  const between = match.match(separators) ?? []
  let shown = ''
  for (let index = 0; index < groups.length; index += 1) {
    const last = lastGroupOfCard(groups, between, index)
    shown += last === undefined ? groups[index] : mark
    index = last ?? index
    shown += between[index] ?? ''
  }
  return shown
}

/** The longest that begins with a group. One dot between two is a decimal number's. */
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
    // Only the last group of a card is shorter than four digits.
    if ((groups[index]?.length ?? 0) < 4) break
  }
  return found
}

/** By ISO/IEC 7812-1 annex B. */
function hasCheckDigit(digits: string): boolean {
  let sum = 0
  for (let index = 0; index < digits.length; index += 1) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - 48
    const doubled = index % 2 === 1 ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}
