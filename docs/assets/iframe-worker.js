// Browsers refuse workers to pages opened from file://. There the search runs in a hidden frame that behaves like one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = () => {}
      const script = frame.contentDocument.createElement("script")
      script.src = url
      script.onload = () => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(data => this.postMessage(data))
      }
      frame.contentDocument.body.append(script)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
