import { describe, expect, test } from 'bun:test'
import { decodeDue, encodeDue } from './notify.ts'

describe('messages of due work', () => {
  test('due message: names a few tenants', () => {
    expect(decodeDue(encodeDue(['ten_a', 'ten_b']))).toEqual(['ten_a', 'ten_b'])
  })

  test('due message: more than fifty tenants become all', () => {
    const ids = Array.from({ length: 51 }, (_, index) => `ten_${String(index).padStart(26, '0')}`)
    expect(decodeDue(encodeDue(ids.slice(0, 50)))).toEqual(ids.slice(0, 50))
    expect(encodeDue(ids)).toBe('*')
    expect(decodeDue('*')).toBe('all')
  })

  test.each([
    ['no JSON', 'ten_a'],
    ['no list', '{"a":1}'],
    ['a list of something else', '[1]'],
    ['too many', JSON.stringify(Array.from({ length: 51 }, () => 'a'))],
    ['endless', `["${'a'.repeat(5000)}"]`],
  ])('due message: decodes %s as all', (_what, message) => {
    expect(decodeDue(message)).toBe('all')
  })
})
