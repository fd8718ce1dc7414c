import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { DueTimes } from './due-times.ts'

test('keys come out when they are due, soonest first', () => {
  const due = new DueTimes()
  due.set('late', 30)
  due.set('soon', 10)
  due.set('then', 20)
  expect(due.first()).toBe(10)
  expect(due.takeDue(9)).toBeUndefined()
  expect([due.takeDue(20), due.takeDue(20), due.takeDue(20)]).toEqual(['soon', 'then', undefined])
  expect(due.size).toBe(1)
})

test('a key that is set again is due once, at the new time', () => {
  const due = new DueTimes()
  due.set('a', 10)
  due.set('b', 20)
  due.set('a', 30)
  expect(due.get('a')).toBe(30)
  expect([due.takeDue(99), due.takeDue(99), due.takeDue(99)]).toEqual(['b', 'a', undefined])
})

test('whatever is done, it gives what a sorted list gives', () => {
  const step = fc.record({
    kind: fc.constantFrom('set', 'delete', 'take'),
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
    at: fc.nat(50),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const due = new DueTimes()
      const model = new Map<string, number>()
      for (const { kind, key, at } of steps) {
        if (kind === 'set') {
          due.set(key, at)
          model.set(key, at)
        } else if (kind === 'delete') {
          due.delete(key)
          model.delete(key)
        } else {
          const taken = due.takeDue(at)
          const first = Math.min(...model.values())
          if (taken === undefined) expect(first).toBeGreaterThan(at)
          else expect(model.get(taken)).toBe(first)
          if (taken !== undefined) model.delete(taken)
        }
        expect(due.size).toBe(model.size)
        expect(due.first() ?? Infinity).toBe(Math.min(...model.values()))
      }
    }),
  )
})
