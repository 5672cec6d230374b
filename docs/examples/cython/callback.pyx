cdef extern from "events.h":
    void on_event(int (*callback)(int))

cdef int count(int event):
    return event + 1

def start():
    on_event(count)
