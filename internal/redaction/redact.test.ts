import { describe, expect, test } from 'bun:test'
import { Glob } from 'bun'
import { createRedactor, shownCharsMax } from './redact.ts'

const redactor = createRedactor(['dateOfBirth', 'x-shop-code', '名前'])
const shown = (text: string) => redactor.payload(text).text

const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U'
const pem = '-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIHunter2\n-----END EC PRIVATE KEY-----'
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Texts with secrets, and how they are shown. */
const hidden: readonly (readonly [what: string, text: string, shown: string])[] = [
  ['a password in JSON', '{"password":"hunter2"}', '{"password":"[redacted]"}'],
  ['a secret name in capitals', '{"PASSWORD":"hunter2"}', '{"PASSWORD":"[redacted]"}'],
  ['a secret name in camel case', '{"cardNumber":"1"}', '{"cardNumber":"[redacted]"}'],
  ['a secret name in snake case', '{"card_number":1}', '{"card_number":"[redacted]"}'],
  ['a secret name in kebab case', '{"x-api-key":"hunter2"}', '{"x-api-key":"[redacted]"}'],
  ['a secret name with dots', '{"card.number":"1"}', '{"card.number":"[redacted]"}'],
  [
    'a name that ends with a secret name',
    '{"stripeClientSecret":"a"}',
    '{"stripeClientSecret":"[redacted]"}',
  ],
  ['a secret name with a suffix', '{"password_hash":"a"}', '{"password_hash":"[redacted]"}'],
  ['a secret name with a number', '{"newPassword2":"a"}', '{"newPassword2":"[redacted]"}'],
  ['a secret name with JSON escapes', '{"pass\\u0077ord":"hunter2"}', '{"pass\\u0077ord":"[redacted]"}'],
  [
    'a secret name in full-width letters',
    '{"ｐａｓｓｗｏｒｄ":"hunter2"}',
    '{"ｐａｓｓｗｏｒｄ":"[redacted]"}',
  ],
  ['a number under a secret name', '{"cvc":123}', '{"cvc":"[redacted]"}'],
  ['a short secret name as the last word', '{"userPin":1234}', '{"userPin":"[redacted]"}'],
  [
    'an object under a secret name',
    '{"credentials":{"a":[1,{"b":2}]},"c":3}',
    '{"credentials":"[redacted]","c":3}',
  ],
  ['an array under a secret name', '{"secrets":["a","]"],"c":3}', '{"secrets":"[redacted]","c":3}'],
  [
    'both values of a repeated secret name',
    '{"pin":"1","pin":"2"}',
    '{"pin":"[redacted]","pin":"[redacted]"}',
  ],
  [
    'a secret in nested arrays and objects',
    '[[[{"a":[{"token":"x"}]}]]]',
    '[[[{"a":[{"token":"[redacted]"}]}]]]',
  ],
  ['a field of the tenant', '{"date_of_birth":"1990-01-01"}', '{"date_of_birth":"[redacted]"}'],
  ['a field of the tenant in capitals', '{"DATEOFBIRTH":1}', '{"DATEOFBIRTH":"[redacted]"}'],
  ['a header of the tenant without its x-', '{"Shop-Code":"a1"}', '{"Shop-Code":"[redacted]"}'],
  ['a field of the tenant in another script', '{"名前":"a"}', '{"名前":"[redacted]"}'],
  ['a credential under authorization', '{"authorization":"Basic YTpi"}', '{"authorization":"[redacted]"}'],
  [
    'the value of a name-value pair',
    '{"name":"DB_PASSWORD","value":"a"}',
    '{"name":"DB_PASSWORD","value":"[redacted]"}',
  ],
  [
    'the value of a pair that precedes its name',
    '{"value":["a"],"key":"token"}',
    '{"value":"[redacted]","key":"token"}',
  ],
  ['the second element of a pair', '[["cookie","a=b"]]', '[["cookie","[redacted]"]]'],
  ['JSON in a string', '{"a":"{\\"pin\\":\\"1\\"}"}', '{"a":"{\\"pin\\":\\"[redacted]\\"}"}'],
  ['a credential in a bare JSON string', '"Bearer abcdef0123456789"', '"Bearer [redacted]"'],
  ['base64 of JSON', `{"a":"${base64('{"password":"x"}')}"}`, '{"a":"[redacted]"}'],
  [
    'base64 for URLs',
    `{"a":"${Buffer.from('password=~~~???').toString('base64url')}"}`,
    '{"a":"[redacted]"}',
  ],
  [
    'base64 in lines',
    `{"a":"${base64('{"password":"hunter2"}').replace(/(.{12})/g, '$1\\r\\n')}"}`,
    '{"a":"[redacted]"}',
  ],
  [
    'base64 in a data URL',
    `data:text/plain;base64,${base64('password=x')}`,
    'data:text/plain;base64,[redacted]',
  ],
  ['base64 twice', base64(base64('{"password":"hunter2"}')), '[redacted]'],
  ['hexadecimal of JSON', Buffer.from('{"password":"x"}').toString('hex'), '[redacted]'],
  ['URL-encoded JSON', `{"a":"${encodeURIComponent('{"pin":"1"}')}"}`, '{"a":"[redacted]"}'],
  ['a form', 'a=1&password=hunter2&b=2', 'a=1&password=[redacted]&b=2'],
  [
    'a form field with an encoded name',
    'user%5Bpassword%5D=hunter2&b=2',
    'user%5Bpassword%5D=[redacted]&b=2',
  ],
  ['a form in the value of a form', 'a=pin%3D12%26b%3D3&c=4', 'a=[redacted]&c=4'],
  [
    'a query parameter of a URL',
    '{"u":"https://a.example/?access_token=a1&b=2"}',
    '{"u":"https://a.example/?access_token=[redacted]&b=2"}',
  ],
  [
    'an XML element',
    '<a><password>x</password><b>1</b></a>',
    '<a><password>[redacted]</password><b>1</b></a>',
  ],
  [
    'an XML element with a prefix',
    '<ns:card-number t="1">1</ns:card-number>',
    '<ns:card-number t="1">[redacted]</ns:card-number>',
  ],
  ['an XML attribute', '<a password="x y" b="1"/>', '<a password="[redacted]" b="1"/>'],
  [
    'an authorization header',
    'Host: a\r\nAuthorization: Digest a="b", c\r\nB: c',
    'Host: a\r\nAuthorization: [redacted]\r\nB: c',
  ],
  ['a cookie header', 'Cookie: a=b; c=d\nB: c', 'Cookie: [redacted]\nB: c'],
  [
    'a secret name of two words in prose',
    '{"note":"API key: abc and more"}',
    '{"note":"API key: [redacted] and more"}',
  ],
  ['a quoted value in prose', "password => 'a b' done", "password => '[redacted]' done"],
  ['a secret in YAML', 'user: ada\npassword: hunter2\n', 'user: ada\npassword: [redacted]\n'],
  ['a secret in invalid JSON', '{"password": "hunter2", "a"', '{"password": "[redacted]", "a"'],
  [
    'JSON in a string of invalid JSON',
    '{"a":"{\\"token\\":\\"x y\\"}"',
    '{"a":"{\\"token\\":\\"[redacted]\\"}"',
  ],
  ['a password of a connection string', 'Server=a;Password=b;Db=c', 'Server=a;Password=[redacted];Db=c'],
  ['a Visa number', '{"n":"4242424242424242"}', '{"n":"[redacted: card number]"}'],
  ['a Visa number as a JSON number', '{"n":4242424242424242}', '{"n":"[redacted: card number]"}'],
  [
    'a Visa number with spaces',
    '{"n":"paid by 4242 4242 4242 4242."}',
    '{"n":"paid by [redacted: card number]."}',
  ],
  ['a Visa number with dashes', '4242-4242-4242-4242', '[redacted: card number]'],
  ['a Visa number in a form, with pluses for spaces', 'n=4242+4242+4242+4242', 'n=[redacted: card number]'],
  ['a Visa number with encoded spaces', 'n=4242%204242%204242%204242', 'n=[redacted]'],
  ['a Visa number after letters', 'card4242424242424242', 'card[redacted: card number]'],
  ['a Visa number after a year', '2026 4242 4242 4242 4242', '2026 [redacted: card number]'],
  ['a Visa number of 13 digits', '4222222222222', '[redacted: card number]'],
  ['a Visa number of 19 digits', '4000000000000000006', '[redacted: card number]'],
  [
    'two card numbers',
    '5555555555554444, 4242 4242 4242 4242',
    '[redacted: card number], [redacted: card number]',
  ],
  ['a Mastercard number', '5555 5555 5555 4444', '[redacted: card number]'],
  ['a Mastercard number of the 2-series', '2223003122003222', '[redacted: card number]'],
  ['an American Express number', '3782 822463 10005', '[redacted: card number]'],
  ['a Diners Club number', '3056 930902 5904', '[redacted: card number]'],
  ['a Discover number', '6011111111111117', '[redacted: card number]'],
  ['a JCB number', '3566002020360505', '[redacted: card number]'],
  ['a UnionPay number', '6200000000000005', '[redacted: card number]'],
  ['a Maestro number', '6759649826438453', '[redacted: card number]'],
  ['a card number as a member name', '{"4242424242424242":1}', '{"[redacted: card number]":1}'],
  [
    'the card number in track data',
    ';4242424242424242=25121010000012345678?',
    ';[redacted: card number]=25121010000012345678?',
  ],
  ['a Bearer credential', '{"h":"Bearer abc.DEF-123_xyz"}', '{"h":"Bearer [redacted]"}'],
  ['a Basic credential', '{"h":"Basic YWRhOmh1bnRlcjI="}', '{"h":"Basic [redacted]"}'],
  ['Digest parameters', 'Digest username="a", response="b"', 'Digest [redacted]'],
  ['AWS signature parameters', 'AWS4-HMAC-SHA256 Credential=a/b, Signature=c', 'AWS4-HMAC-SHA256 [redacted]'],
  ['a JSON Web Token', `{"a":"x ${jwt} y"}`, '{"a":"x [redacted: token] y"}'],
  ['a private key', JSON.stringify({ a: `x ${pem} y` }), '{"a":"x [redacted: private key] y"}'],
  ['a private key without an end', '-----BEGIN PRIVATE KEY-----\nMHc', '[redacted: private key]'],
  ['an OpenSSH private key', pem.replaceAll('EC', 'OPENSSH'), '[redacted: private key]'],
  [
    'a signing secret of Latchkey',
    '{"a":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}',
    '{"a":"[redacted: token]"}',
  ],
  ['an API key of Latchkey', '{"a":"lk_0123456789abcdef"}', '{"a":"[redacted: token]"}'],
  ['a card processor’s key', 'sk_live_4eC39HqLyjWDarjtT1zdp7dc', '[redacted: token]'],
  ['a card processor’s restricted key', 'rk_test_4eC39HqLyjWDarjtT1zdp7dc', '[redacted: token]'],
  ['a card processor’s client secret', 'pi_3SLYyY2eZvKYlo2C_secret_aBcDeFgHiJ', '[redacted: token]'],
  ['a shop’s token', 'shpat_0123456789abcdef0123456789abcdef', '[redacted: token]'],
  ['a code host’s token', 'ghp_0123456789abcdefABCDEF0123456789abcd', '[redacted: token]'],
  ['a code host’s fine-grained token', 'github_pat_11ABCDEFG0abcdefgh', '[redacted: token]'],
  ['another code host’s token', 'glpat-abcdefghij0123456789', '[redacted: token]'],
  ['a chat token', 'xoxb-123456789012-abcdef', '[redacted: token]'],
  [
    'a chat webhook URL',
    'https://hooks.slack.com/services/T0/B0/abcdef',
    'https://hooks.slack.com/services/[redacted]',
  ],
  ['a cloud access key id', 'AKIAIOSFODNN7EXAMPLE', '[redacted: token]'],
  ['another cloud’s API key', 'AIzaSyA-1234567890abcdefghijklmnopqrstu', '[redacted: token]'],
  ['a model provider’s key', 'sk-proj-abcdefgh12345678', '[redacted: token]'],
  ['a mail service’s key', 'SG.abcdefghijklmnop.abcdefghijklmnopqrst', '[redacted: token]'],
  ['a package registry’s token', `npm_${'a1'.repeat(18)}`, '[redacted: token]'],
  ['a wallet processor’s access token', 'access_token$sandbox$abc123$0123456789abcdef', '[redacted: token]'],
  ['the password in a URL', 'postgres://ada:p@ss/word@db:5432/x', 'postgres://ada:[redacted]@db:5432/x'],
  ['the password in a URL without a user', '{"u":"redis://:hunter2@h:1"}', '{"u":"redis://:[redacted]@h:1"}'],
  [
    'a token as the user of a URL',
    'https://0123456789abcdef0123@git.example/',
    'https://[redacted]@git.example/',
  ],
  ['an e-mail address', '{"a":"to ada.l+x@mail.example.com!"}', '{"a":"to [redacted: e-mail]!"}'],
  ['a URL-encoded e-mail address', 'a=ada%40example.com&b=1', 'a=[redacted]&b=1'],
  ['an e-mail address with a JSON escape', '{"a":"ada\\u0040example.com"}', '{"a":"[redacted: e-mail]"}'],
  ['an international e-mail address', '{"a":"jürgen@müller.example"}', '{"a":"[redacted: e-mail]"}'],
]

/** Texts that are shown unchanged. */
const kept: readonly (readonly [what: string, text: string])[] = [
  ['an empty text', ''],
  ['a count of tokens', '{"token_count":17,"tokens":150,"prompt_tokens":12}'],
  [
    'ids and last digits of a card',
    '{"card_id":"card_1Nabc","card":{"last4":"4242","brand":"visa","exp_year":2027}}',
  ],
  ['amounts', '{"amount":"1250.50","amount_minor":125050,"total":1e3,"fee":-0.5}'],
  ['numbers beyond a double', '{"id":12345678901234567890123, "n":0.10000000000000000001 }'],
  ['ids of 18 digits', '{"order_id":820982911946154508,"item":866550311766439020}'],
  ['13 digits that are no card number', '{"at":1794300000000,"id":"5821490102345"}'],
  ['16 digits with a wrong check digit', '{"a":"4242424242424241"}'],
  ['16 digits of no network', '{"a":"1234567812345670"}'],
  ['20 digits', '{"a":"42424242424242424242"}'],
  ['a decimal number', '{"a":252641852356.976,"b":"424242424242.4242"}'],
  ['a hash', '{"sha":"ec4242424242424242a959ca5aad62de7213c562"}'],
  ['a UUID', '{"id":"b6f2b9a0-8f4e-4242-9424-24242aef0c8f"}'],
  ['times', '{"a":"2026-11-10T10:00:00.250+01:00","b":"2026-11-10 09:18:07"}'],
  ['names that only resemble a secret’s', '{"secret_name":"a","keyId":"k","public_key":"x","passenger":"y"}'],
  ['words that end with a short secret name', '{"shipping":"a","japan":"b","spin":1,"bypass":"x"}'],
  [
    'null, booleans and empty values under secret names',
    '{"password":null,"has_password":true,"token":"","secret":false}',
  ],
  ['keys that are not secrets', '{"key":"color","idempotency_key":"b6f2","sort_key":1}'],
  ['authorization codes of a bank', '{"authorization":"1001","authorization_code":"A1B2C3"}'],
  ['counts of tests that passed', '{"pass":12,"fail":1}'],
  ['results of card checks', '{"cvc_check":"pass","address_check":"pass"}'],
  ['pairs without a secret name', '[{"name":"color","value":"red"},["color","red"]]'],
  ['prose that names schemes', '{"a":"Basic subscription, token expired, bearer unknown"}'],
  ['texts with @ that are no e-mail address', '{"a":"user@host and @ada and a @ b.c"}'],
  ['a URL', '{"a":"https://a.example:8080/x?page=2&to=b#c"}'],
  ['a package with its version', '{"a":"left-pad@1.2.3"}'],
  [
    'base64 of something else',
    `{"a":"${base64('just a longer text, no more')}","b":"/9j/4AAQSkZJRgABAQAAAQ=="}`,
  ],
  ['a form', 'a=1&b=two+words&c=%C3%A9'],
  ['an XML element', '<a><amount>250.00</amount><id>txn_1</id><kind nil="true"/></a>'],
  ['JSON in a string', '{"a":"{\\"b\\": [1, 2.0]}","c":"[WIP] x"}'],
  ['spaces, order and odd names', ' {\t"b" : 1 ,\r\n "a":[ ] , "__proto__":{"x":{ }}, "":"\\u00e9\\/" } '],
  ['the same name twice', '{"a":1,"a":2}'],
  ['unpaired surrogates', '{"a":"\\ud800"}'],
  ['plain text', 'nothing of interest'],
  ['ids with digits', '{"a":"ch_3SLYyY2eZvKYlo2C1hIjKlMn","b":"PP-000-042-663-135"}'],
]

test.each(hidden)('redactor: redacts %s', (_what, text, expected) => {
  expect(shown(text)).toBe(expected)
  expect(shown(expected)).toBe(expected)
})

test.each(kept)('redactor: keeps %s unchanged', (_what, text) => {
  expect(shown(text)).toBe(text)
})

test('redactor tests: contain at least 80 cases', () => {
  expect(hidden.length + kept.length).toBeGreaterThanOrEqual(80)
})

describe('redactor and vendor samples', () => {
  const root = new URL('../providers/built-in/', import.meta.url).pathname
  const paths = [...new Glob('*/fixtures/*').scanSync(root)].sort()

  test('redactor: the vendor samples that these tests need exist', () => {
    expect(paths.length).toBeGreaterThan(20)
  })

  test.each(paths)('redactor: in the vendor sample %s, only e-mail addresses are redacted', async (path) => {
    const text = await Bun.file(`${root}${path}`).text()
    const withoutMail = text.replace(/[\w.-]+@example\.com/g, '[redacted: e-mail]')
    expect(shown(text)).toBe(withoutMail)
    expect(shown(encodeURIComponent(text)) === encodeURIComponent(text)).toBe(withoutMail === text)
  })
})

describe('headers', () => {
  test('redactor headers: values are redacted by name and by format', () => {
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      authorization: '1001',
      Cookie: 'a=b',
      'x-session': 'abc',
      'stripe-signature': 't=1,v1=abc',
      'X-Hub-Signature-256': 'sha256=abc',
      'x-shop-code': 'a1',
      'x-forwarded-for': '203.0.113.7',
      referer: 'https://a.example/?token=abc',
      from: 'ada@example.com',
      'x-request-id': 'b6f2b9a0-8f4e-4c9e-9a53-2f6f5f0c8f1e',
      'x-api-key-id': 'k1',
    }
    expect(redactor.headers(headers)).toEqual({
      ...headers,
      authorization: '[redacted]',
      Cookie: '[redacted]',
      'x-session': '[redacted]',
      'stripe-signature': '[redacted]',
      'X-Hub-Signature-256': '[redacted]',
      'x-shop-code': '[redacted]',
      referer: 'https://a.example/?token=[redacted]',
      from: '[redacted: e-mail]',
    })
  })

  test('redactor headers: special names such as `__proto__` are treated like other names', () => {
    const headers = JSON.parse('{"__proto__":"token=abc"}') as Record<string, string>
    expect(JSON.stringify(redactor.headers(headers))).toBe('{"__proto__":"token=[redacted]"}')
  })
})

describe('a long payload', () => {
  const cut = (text: string, charsMax: number) => redactor.payload(text, charsMax)

  test('redactor: truncates a long payload at its maximum length', () => {
    const text = JSON.stringify({ list: Array.from({ length: 20_000 }, (_none, nth) => ({ nth })) })
    const whole = redactor.payload(text)
    expect(whole).toMatchObject({ isCut: true, charsTotal: text.length })
    expect(text.startsWith(whole.text)).toBe(true)
    expect(whole.text.length).toBeGreaterThan(shownCharsMax - 32)
    expect(redactor.payload('{}')).toEqual({ text: '{}', isCut: false, charsTotal: 2 })
  })

  test.each([
    ['JSON', '{"a":1,"password":"hunter2hunter2","n":4242424242424242,"t":"4242 4242 4242 4242","z":[1]}'],
    ['a form', 'a=1&password=hunter2hunter2&n=4242424242424242&t=4242+4242+4242+4242'],
    ['XML', '<a><password>hunter2hunter2</password><b>4242 4242 4242 4242</b><c>1</c></a>'],
    ['text', 'paid with 4242 4242 4242 4242 by sk_live_hunter2hunter2, password: hunter2hunter2'],
    ['base64', base64('{"first":1,"password":"hunter2hunter2","card":"4242424242424242"}')],
  ])('redactor: %s that is cut at any position shows no part of a secret', (_what, text) => {
    for (let at = 0; at < text.length; at += 1) {
      const { text: seen } = cut(text, at)
      expect(seen).not.toMatch(/hunt|4242/)
      for (const row of seen.match(/[A-Za-z0-9+/]{12,}/g) ?? [])
        expect(Buffer.from(row, 'base64').toString()).not.toMatch(/hunt|4242/)
    }
  })
})

test('redactor: hides the value of a name/value pair whose object is cut', () => {
  const text = '[{"name":"token","value":"hunter2","more":[1,2,3]}]'
  for (let at = text.indexOf('hunter2'); at < text.length; at += 1)
    expect(redactor.payload(text, at).text).not.toContain('hunter2')
})

test.each(['\u00a0', '\ufeff', '\u2028', '\v', '\f', '\u3000'])(
  'redactor: a text with %j outside of strings is not JSON and is redacted as text',
  (space) => {
    const text = `[${space}{"password":"hunter2"},${space}"[Sale]${space}Acme"${space}]`
    expect(shown(text)).not.toContain('hunter2')
    expect(shown(JSON.stringify({ note: text }))).not.toContain('hunter2')
    for (let at = 0; at < text.length; at += 1) redactor.payload(text, at)
  },
)

test('redactor: hides content that is encoded too deeply', () => {
  let text = '{"note":"hunter2"}'
  for (let times = 0; times < 9; times += 1) text = JSON.stringify(text)
  expect(shown(text)).not.toContain('hunter2')
  expect(shown(text)).toContain('[redacted: not looked into]')
})
