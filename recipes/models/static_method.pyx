# A static method of a C++ class that its base class has as well, called through the class.
cdef extern from "shapes.hpp":
    cppclass Shape:
        @staticmethod
        int sides()

    cppclass Square(Shape):
        @staticmethod
        int sides()


def count():
    return Square.sides()
