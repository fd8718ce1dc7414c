// The dialog of ⌘K or Ctrl+K that jumps to a tenant, an event, a replay, a type, a setting or a page. Its results are those of the page /jump, which works without it.
{
  const debounceMs = 200
  const keyPrefixChars = 11
  const dialog = document.querySelector('dialog.jump')
  const opener = document.querySelector('.jump-form input[name=find]')
  const isMac = /mac|iphone|ipad/i.test(navigator.userAgentData?.platform ?? navigator.platform)

  const form = dialog?.querySelector('form')
  const input = dialog?.querySelector('input[name=find]')
  const list = dialog?.querySelector('[role=listbox]')
  const status = dialog?.querySelector('[role=status]')
  let timer
  let asking
  let current = -1
  // Text of the input that the shown results belong to, and whether the ids of providers were searched for any text.
  let answered
  let isWhole = false

  const options = () => [...list.querySelectorAll('[role=option]')]
  const choose = (nth) => {
    const all = options()
    current = all.length === 0 || nth < 0 ? -1 : nth % all.length
    for (const [index, option] of all.entries())
      option.setAttribute('aria-selected', String(index === current))
    const chosen = all[current]
    if (chosen) input.setAttribute('aria-activedescendant', chosen.id)
    else input.removeAttribute('aria-activedescendant')
    chosen?.scrollIntoView({ block: 'nearest' })
  }

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name)
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
    made.append(...children)
    return made
  }

  const nothingText = () =>
    isWhole || input.value.trim() === ''
      ? 'Nothing found.'
      : 'Nothing found yet. Press Enter to look for an event with this id at its provider.'

  /** Shows the links of the results page as options. Their texts are copied as text. */
  const show = (results) => {
    let count = 0
    const groups = [...results.querySelectorAll('.card')].map((card, nth) => {
      const title = element(
        'div',
        { class: 'nav-title', id: `jump-group-${nth}` },
        card.querySelector('h2').textContent,
      )
      const rows = [...card.querySelectorAll('.targets > li')].map((item) => {
        const target = item.querySelector('a')
        const note = item.querySelector('.muted')
        return element(
          'div',
          {
            role: 'option',
            id: `jump-option-${count++}`,
            'aria-selected': 'false',
            'data-href': target.getAttribute('href'),
          },
          element('span', {}, target.textContent),
          ...(note ? [element('span', { class: 'muted' }, note.textContent)] : []),
        )
      })
      const why = card.querySelector('.card-note')
      const parts = why ? [...rows, element('p', { class: 'muted' }, why.textContent)] : rows
      return element('div', { role: 'group', 'aria-labelledby': title.id }, title, ...parts)
    })
    list.replaceChildren(...groups.filter((group) => group.querySelector('[role=option]')))
    const problems = groups.flatMap((group) => [...group.querySelectorAll('p')])
    for (const problem of problems) problem.remove()
    status.textContent =
      problems.map(({ textContent }) => textContent).join(' ') ||
      (count === 0 ? nothingText() : `${count} ${count === 1 ? 'result' : 'results'}`)
    input.setAttribute('aria-expanded', String(count > 0))
    choose(count > 0 && input.value.trim() !== '' ? 0 : -1)
  }

  /** Asks for the results. While a text is being typed, the server compares it with the ids of providers only if it looks like one. */
  const ask = async (isTyping = false) => {
    clearTimeout(timer)
    asking?.abort()
    asking = new AbortController()
    const address = new URL(form.action)
    for (const [name, value] of new FormData(form)) address.searchParams.set(name, value)
    const find = input.value.trim()
    address.searchParams.set('find', find.startsWith('lk_') ? find.slice(0, keyPrefixChars) : find)
    if (isTyping) address.searchParams.set('typing', '1')
    const { signal } = asking
    try {
      const answer = await fetch(address, { signal })
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
      const results = page.querySelector('#jump-results')
      if (signal.aborted) return
      answered = find
      isWhole = !isTyping
      // The session has ended: the page leads to the sign-in page.
      if (!results && page.querySelector('input[name=token]')) location.reload()
      else if (results) show(results)
      else status.textContent = 'The search failed. Try again.'
    } catch (error) {
      if (error.name !== 'AbortError') status.textContent = 'The search failed. Try again.'
    }
  }

  const go = (option, isNew) => {
    if (isNew) window.open(option.dataset.href, '_blank', 'noopener')
    else location.assign(option.dataset.href)
  }

  const open = () => {
    if (dialog.open) return
    input.value = ''
    dialog.showModal()
    void ask()
  }

  /** Opens the chosen result. The first result of a text is chosen once its results have come. */
  const enter = async (isNew) => {
    if (answered !== input.value.trim() || (options().length === 0 && !isWhole)) await ask()
    const chosen = options()[current]
    if (chosen && answered === input.value.trim()) go(chosen, isNew)
  }

  const listen = () => {
    input.addEventListener('input', () => {
      clearTimeout(timer)
      choose(-1)
      timer = setTimeout(() => ask(true), debounceMs)
    })
    dialog.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        event.preventDefault()
        choose(event.key === 'ArrowDown' ? current + 1 : (current < 1 ? options().length : current) - 1)
      }
      if (event.key === 'Enter' && event.target === input) {
        event.preventDefault()
        void enter(event.ctrlKey || event.metaKey)
      }
    })
    dialog.addEventListener('click', (event) => {
      const option = event.target.closest('[role=option]')
      if (option) go(option, event.ctrlKey || event.metaKey)
      else if (event.target === dialog) dialog.close()
    })
    // A closed dialog returns the focus to the element that had it.
    dialog.addEventListener('close', () => {
      clearTimeout(timer)
      asking?.abort()
    })
    document.addEventListener('keydown', (event) => {
      const isKey = event.key.toLowerCase() === 'k' && (isMac ? event.metaKey : event.ctrlKey)
      if (!isKey || event.altKey || event.shiftKey) return
      event.preventDefault()
      open()
    })
    if (opener) {
      opener.addEventListener('click', open)
      opener.placeholder = `Jump to… (${isMac ? '⌘K' : 'Ctrl+K'})`
      opener.setAttribute('aria-keyshortcuts', isMac ? 'Meta+K' : 'Control+K')
    }
  }
  if (dialog?.showModal) listen()
}
