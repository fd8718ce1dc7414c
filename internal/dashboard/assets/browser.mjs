// Enhances pages that work without it: times in the reader's zone, buttons that copy, what a chart says under the pointer.
;(() => {
  const longFormat = new Intl.DateTimeFormat(undefined, {
    ...{ year: 'numeric', month: 'short', day: 'numeric' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  })
  const formats = {
    full: longFormat,
    short: new Intl.DateTimeFormat(undefined, {
      ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
      hourCycle: 'h23',
    }),
    day: new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' }),
    minute: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  }
  const zone = document.querySelector('[data-zone]')

  function localise(root) {
    for (const element of root.querySelectorAll('time[data-format]')) {
      const at = new Date(element.dateTime)
      const format = formats[element.dataset.format]
      if (!format || Number.isNaN(at.getTime())) continue
      // The text is UTC as the server wrote it, unless it was done before.
      if (!element.title) element.title = `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
      element.textContent = format.format(at)
    }
  }

  function enableCopying(root) {
    for (const button of root.querySelectorAll('button[data-copy]')) button.hidden = !navigator.clipboard
  }

  async function copy(button) {
    const said = button.querySelector('[data-said]')
    const before = said.textContent
    try {
      await navigator.clipboard.writeText(button.dataset.copy)
      said.textContent = 'Copied'
      button.classList.add('is-copied')
    } catch {
      said.textContent = 'Select and copy it'
    }
    setTimeout(() => {
      said.textContent = before
      button.classList.remove('is-copied')
    }, 1500)
  }

  function readOut(target) {
    const figure = target.closest('figure.chart')
    const output = figure?.querySelector('[data-readout]')
    if (!output) return
    const bar = target.closest('[data-point]')
    if (output.dataset.rest === undefined) output.dataset.rest = output.textContent
    if (!bar) {
      output.textContent = output.dataset.rest
      return
    }
    const at = new Date(Number(bar.dataset.at))
    output.textContent = `${formats.short.format(at)}  ·  ${bar.dataset.point}`
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[data-copy]')
    if (button) void copy(button)
  })
  document.addEventListener('pointerover', (event) => {
    if (event.target.closest?.('figure.chart')) readOut(event.target)
  })
  document.addEventListener('change', (event) => {
    if (event.target.matches?.('select[data-submit]')) event.target.form?.requestSubmit()
  })

  function enhance(root) {
    localise(root)
    enableCopying(root)
  }

  enhance(document)
  if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone
  for (const element of document.querySelectorAll('[data-needs-script]')) element.hidden = false

  // The dev server prints an address whose fragment, which is sent to nobody, holds its token.
  const token = document.querySelector('input[name=token]')
  if (token && location.hash.startsWith('#token=')) {
    token.value = decodeURIComponent(location.hash.slice(7))
    history.replaceState(null, '', location.pathname + location.search)
  }

  document.addEventListener('htmx:after:swap', () => enhance(document))
})()
